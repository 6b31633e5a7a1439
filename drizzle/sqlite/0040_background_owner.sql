ALTER TABLE `background` ADD `owner` text;--> statement-breakpoint
CREATE INDEX `background_running` ON `background` (`owner`) WHERE status = 'running';
