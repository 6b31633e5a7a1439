CREATE TABLE `imported_turns` (
	`conversation` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`turns` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `imported_turns_account` ON `imported_turns` (`account`);
