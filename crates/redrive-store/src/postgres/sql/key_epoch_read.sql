SELECT key_epoch FROM redrive.seal_epoch
