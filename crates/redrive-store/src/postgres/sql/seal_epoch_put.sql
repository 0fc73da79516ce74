UPDATE redrive.seal_epoch SET key_epoch = greatest(key_epoch + 1, $1)
