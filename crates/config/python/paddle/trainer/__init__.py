"""The raw vocabulary of configuration files (`config_parser`) and the data provider interface (`PyDataProvider2`)."""
