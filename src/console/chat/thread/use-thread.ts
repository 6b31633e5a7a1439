// The conversation that the page shows.

import { useEffect, useState, useSyncExternalStore } from 'react'
import { useLocation } from 'wouter'
import { useConversations } from '../../api/queries.ts'
import { OpenThread, threadFor } from './open-thread.ts'

/** `id`: as the address says; undefined for a new conversation. */
export function useThread(id: string | undefined) {
  const [opened, setOpened] = useState(() => ({ address: id, thread: threadFor(id) }))
  const { address, thread } = opened
  const shown = useSyncExternalStore(thread.subscribe, () => thread.shown)
  const { data: conversations } = useConversations()
  const [, navigate] = useLocation()

  if (id !== address) {
    const isOpen = id === thread.shown.id
    const other = () => (id === undefined ? new OpenThread(undefined) : threadFor(id))
    setOpened({ address: id, thread: isOpen ? thread : other() })
  }

  // A new conversation gets its address with its first answer; one that is still answered is shown on return.
  useEffect(() => {
    if (shown.id !== undefined && address === undefined) navigate(`/chat/${shown.id}`, { replace: true })
  }, [address, shown.id])

  useEffect(() => {
    const listed = conversations?.find((conversation) => conversation.id === thread.shown.id)
    if (listed) thread.catchUp(listed)
  }, [conversations])

  /** Leaves a conversation that has no address yet; one that has is left by going to another address. */
  function startAnew() {
    if (id === undefined) setOpened({ address: id, thread: new OpenThread(undefined) })
  }

  return { ...shown, thread, startAnew }
}
