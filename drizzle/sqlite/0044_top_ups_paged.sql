CREATE INDEX `top_up_created` ON `top_up` (`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `top_up_state_of` ON `top_up` (`state`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `top_up_processor` ON `top_up` (`processor`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `top_up_problem` ON `top_up` (`created_at`,`id`) WHERE problem is not null;
