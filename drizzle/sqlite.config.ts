// drizzle-kit's settings for SQLite; `drizzle/generate.ts` calls it.

import { defineConfig } from 'drizzle-kit'

export default defineConfig({ dialect: 'sqlite', schema: './src/store/schema.ts', out: './drizzle/sqlite' })
