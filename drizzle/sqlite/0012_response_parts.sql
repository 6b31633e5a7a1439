CREATE TABLE `response_part` (
	`response` text NOT NULL,
	`part` integer NOT NULL,
	`of` text NOT NULL,
	`text` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `response_part_of` ON `response_part` (`response`,`part`);--> statement-breakpoint
ALTER TABLE `response` ADD `parts` integer;
