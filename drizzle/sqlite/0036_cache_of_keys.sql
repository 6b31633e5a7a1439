ALTER TABLE `api_key` ADD `cache_ttl` integer;
