UPDATE store SET key_epoch = key_epoch + 1
