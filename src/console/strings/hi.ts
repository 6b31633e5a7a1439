export const hi: Readonly<Record<string, string>> = {}
