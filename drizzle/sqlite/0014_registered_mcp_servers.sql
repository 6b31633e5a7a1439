CREATE TABLE `mcp_server` (
	`account` text NOT NULL,
	`name` text NOT NULL,
	`url` text NOT NULL,
	`sealed` blob,
	`created_at` integer NOT NULL,
	`changed_at` integer NOT NULL,
	PRIMARY KEY(`account`, `name`),
	FOREIGN KEY (`account`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
