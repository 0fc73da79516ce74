UPDATE redrive.seal_epoch SET key_epoch = key_epoch + 1
