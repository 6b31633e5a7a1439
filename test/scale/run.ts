// `bun run scale`: fills a database of two million calls and a hundred thousand keys.
import { fill, fullScale } from './fill.ts'
const began = performance.now()
console.log(await fill(process.argv[2]!, fullScale), performance.now() - began)
