CREATE TABLE "saved_prompt" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"text" text COLLATE "C" NOT NULL,
	"changed_at" bigint NOT NULL
);
--> statement-breakpoint
ALTER TABLE "conversation" ADD COLUMN "folder" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "conversation" ADD COLUMN "pinned" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "conversation" ADD COLUMN "settings" text COLLATE "C";--> statement-breakpoint
CREATE INDEX "saved_prompt_account" ON "saved_prompt" USING btree ("account");