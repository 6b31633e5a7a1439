ALTER TABLE `api_key` ADD `sees` text DEFAULT 'own' NOT NULL;
