CREATE TABLE `allowance` (
	`address` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`day` integer NOT NULL,
	`amount` integer NOT NULL,
	`given` integer NOT NULL,
	CONSTRAINT "allowance_amount" CHECK(amount > 0 and given >= amount)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `allowance_day` ON `allowance` (`day`,`given`);
