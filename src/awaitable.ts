// What a store answers at once where it can (SQLite, in this process), and later where it must (across a network).

export type Awaitable<T> = T | Promise<T>
