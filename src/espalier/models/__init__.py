"""Finding models and the device they run on."""
