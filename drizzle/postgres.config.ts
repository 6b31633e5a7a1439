// drizzle-kit's settings for PostgreSQL; `drizzle/generate.ts` calls it.

import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './src/store/postgres/schema.ts',
  out: './drizzle/postgres',
})
