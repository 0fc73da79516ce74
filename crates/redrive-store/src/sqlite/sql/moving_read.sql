SELECT state, place FROM moving
