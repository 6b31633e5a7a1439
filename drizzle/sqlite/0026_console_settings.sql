CREATE TABLE `console_settings` (
	`revision` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`operator` text NOT NULL,
	`before` integer NOT NULL,
	`settings` text NOT NULL,
	`sealed` blob
) STRICT;
