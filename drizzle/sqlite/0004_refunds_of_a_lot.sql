ALTER TABLE `correction` ADD `lot` text;--> statement-breakpoint
CREATE INDEX `correction_lot` ON `correction` (`lot`);
