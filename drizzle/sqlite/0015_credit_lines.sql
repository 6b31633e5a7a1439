CREATE TABLE `credit_line` (
	`account` text PRIMARY KEY NOT NULL,
	`most` integer NOT NULL,
	`at` integer NOT NULL,
	`spent` integer DEFAULT 0 NOT NULL,
	CONSTRAINT "credit_line_most" CHECK(most between 0 and 4000000000000000000)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `lot_owned` ON `lot` (`account`) WHERE id not glob 'line_*';
