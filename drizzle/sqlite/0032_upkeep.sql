CREATE TABLE `upkeep` (
	`name` text PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`value` text NOT NULL
) STRICT, WITHOUT ROWID;
