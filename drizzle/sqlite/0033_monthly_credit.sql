ALTER TABLE `account` ADD `monthly_credit` integer;
