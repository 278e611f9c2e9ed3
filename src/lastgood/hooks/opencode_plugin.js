// Makes checkpoints: entered by lastgood install opencode, taken out by lastgood uninstall opencode.
import { spawn } from "node:child_process"

const COMMAND = ["lastgood", "hook", "opencode"]
// Calls of tools are told of too if a checkpoint is to be made of each.
const TELLS_CALLS = COMMAND.includes("--tools")
// These change no file; what a sub-agent's calls change is told of as theirs.
const LOOKING = new Set(
  ["read", "glob", "grep", "list", "lsp", "webfetch", "websearch", "codesearch", "todoread", "todowrite", "question", "skill", "task"],
)
// A save may look at the files for ten seconds; whatever else happens, the agent does not wait longer.
const PATIENCE = 60_000

// Resolves to what the command answers, to nothing where it has nothing to say; never rejects.
function run(said) {
  return new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"], timeout: PATIENCE })
    let answer = ""
    child.stdout.on("data", (part) => (answer += part))
    child.stdin.on("error", () => {})
    child.on("error", (error) => resolve({ told: `lastgood made no checkpoint: ${error.message}` }))
    child.on("close", () => {
      try {
        resolve(answer.trim() ? JSON.parse(answer) : {})
      } catch {
        resolve({})
      }
    })
    child.stdin.end(JSON.stringify(said))
  })
}

export const Lastgood = async ({ client, directory }) => {
  const known = new Set() // conversations that were told of here
  const roots = new Map() // of those of sub-agents, which are no turns of a person's: with whom they began
  const cut = new Set() // those whose turn a person broke off
  const busy = new Map() // which message each is at
  const news = new Map() // what an agent is to be told in the turn it is at
  const open = new Map() // calls of tools that go on: with whom they began, whether that was beside another
  let last = Promise.resolve({})

  // One after the other, as they happened.
  const tell = (event, sessionID, more) => {
    last = last.then(() => run({ event, sessionID, directory, ...more })).then(show)
    return last
  }
  const show = async (answer) => {
    if (answer.told) {
      await client.tui.showToast({ body: { message: answer.told, variant: "warning" } }).catch(() => {})
    }
    return answer
  }
  const meet = async (sessionID) => {
    if (!known.has(sessionID)) {
      known.add(sessionID)
      await tell("session.start", sessionID, {})
    }
  }

  // What several changed that ran beside each other is no single one's: it is told when the last is over.
  const ended = async ({ tool, sessionID, callID, args }, failed) => {
    if (!open.has(callID)) return
    const { beside } = open.get(callID)
    open.delete(callID)
    if (beside && open.size) return
    const agent = roots.has(sessionID) ? sessionID : undefined
    const said = { tool, callID, args, agent, beside, failed }
    await tell("tool.execute.after", roots.get(sessionID) ?? sessionID, said)
  }

  return {
    event: async ({ event }) => {
      const sessionID = event.properties?.sessionID ?? event.properties?.info?.id
      const parent = event.type === "session.created" && event.properties.info.parentID
      if (parent) roots.set(sessionID, roots.get(parent) ?? parent)
      if (event.type === "session.error" && event.properties.error?.name === "MessageAbortedError") cut.add(sessionID)
      const part = event.type === "message.part.updated" ? event.properties.part : undefined
      if (part?.type === "tool" && part.state.status === "error") {
        await ended({ ...part, args: part.state.input }, true)
      }
      if (event.type === "session.idle" && busy.has(sessionID)) {
        const messageID = busy.get(sessionID)
        busy.delete(sessionID)
        await tell("session.idle", sessionID, { messageID, cut: cut.delete(sessionID) })
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      if (roots.has(sessionID)) return
      await meet(sessionID)
      busy.set(sessionID, message.id)
      for (const [call, one] of open) if (one.root === sessionID) open.delete(call)
      cut.delete(sessionID)
      const text = parts.filter((one) => one.type === "text" && !one.synthetic).map((one) => one.text)
      const said = { messageID: message.id, text: text.join("\n") }
      news.set(sessionID, (await tell("chat.message", sessionID, said)).context)
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (news.get(sessionID)) system.push(news.get(sessionID))
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const counts = TELLS_CALLS && !LOOKING.has(tool)
      const beside = counts && open.size > 0
      if (beside) for (const one of open.values()) one.beside = true
      if (counts) open.set(callID, { root: roots.get(sessionID) ?? sessionID, beside })
      if (typeof args?.command !== "string" && !counts) return
      const agent = roots.has(sessionID) ? sessionID : undefined
      const said = { tool, callID, args, agent, beside }
      const answer = await tell("tool.execute.before", roots.get(sessionID) ?? sessionID, said)
      if (answer.refused) {
        open.delete(callID)
        throw new Error(answer.refused)
      }
    },
    "tool.execute.after": async (call) => ended(call),
    "experimental.session.compacting": async ({ sessionID }) => {
      if (!roots.has(sessionID)) await tell("session.compacting", sessionID, {})
    },
    dispose: async () => {
      for (const sessionID of known) await tell("dispose", sessionID, {})
    },
  }
}
