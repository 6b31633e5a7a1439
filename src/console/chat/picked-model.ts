// What this browser remembers of the models of the chat.

import { isTextList, recall, remember } from '../ui/remembered.ts'

const item = 'weir.model'
export const recentItem = 'weir.recent-models'
const mostRecent = 5
const none: readonly string[] = []

/** The model of the next question, here and in the other pages of this browser. */
export function pickModel(id: string): void {
  localStorage.setItem(item, id)
  const before = recall(recentItem, none, isTextList).filter((other) => other !== id)
  remember(recentItem, [id, ...before].slice(0, mostRecent))
}

/** The id of the model picked last; empty before the first. */
export function lastPicked(): string {
  return localStorage.getItem(item) ?? ''
}
