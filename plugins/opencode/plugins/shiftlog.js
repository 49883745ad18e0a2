// Shiftlog for OpenCode: tells `shiftlog-hook` what happens, and obeys the guard before a tool call.
// `shiftlog setup opencode --write` writes this file, `shiftlog setup opencode --remove` removes it.

import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const HOOK = "shiftlog-hook"
const UNDER = process.platform === "darwin" ? "Library/Application Support" : ".local/state"
const STATE =
  "" || process.env.SHIFTLOG_HOME || join(process.env.XDG_STATE_HOME || join(homedir(), UNDER), "shiftlog")
// Exists while the guard enforces: without our program no call that changes anything may go ahead.
const GATE = join(STATE, "guard.opencode")
const CHANGING = new Set(["bash", "write", "edit", "multiedit", "patch", "apply_patch"])
const LIMIT_MS = 5_000
const OPTIONS = { env: { ...process.env, SHIFTLOG_HOME: STATE }, timeout: LIMIT_MS }

// Returns what the hook printed; null if it does not run.
const told = (event, words = []) =>
  new Promise((resolve) => {
    const child = spawn(HOOK, ["opencode", ...words], { ...OPTIONS, stdio: ["pipe", "pipe", "ignore"] })
    let printed = ""
    child.on("error", () => resolve(null))
    child.on("close", (code) => resolve(code === 0 ? printed : null))
    child.stdout.on("data", (data) => (printed += data))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  })

// OpenCode does not wait for what an event starts, and may end right after it.
const toldAtOnce = (event) =>
  spawnSync(HOOK, ["opencode"], { ...OPTIONS, input: JSON.stringify(event), stdio: ["pipe", "ignore", "ignore"] })

const parsed = (printed) => {
  try {
    return JSON.parse(printed) ?? {}
  } catch {
    return {}
  }
}

export const Shiftlog = async ({ client, directory }) => {
  const sessions = new Map()
  let before = Promise.resolve()

  // Events reach the hook one after the other, in the order in which they came.
  const inOrder = (work) => (before = before.then(work, work))

  const about = (sessionID, name, more = {}) => {
    const parent = sessions.get(sessionID)?.parent
    const who = parent ? { session_id: parent, agent_id: sessionID } : { session_id: sessionID }
    return { hook_event_name: name, ...who, cwd: directory, ...more }
  }

  const warn = (message) =>
    client.app.log({ body: { service: "shiftlog", level: "warn", message } }).catch(() => undefined)

  const begin = (sessionID, source, { parentID, title } = {}) => {
    if (sessions.has(sessionID)) return before
    const session = { parent: parentID, brief: "" }
    sessions.set(sessionID, session)
    return inOrder(async () => {
      if (parentID) return told(about(sessionID, "SubagentStart", { agent_type: title }))
      const answer = parsed(await told(about(sessionID, "SessionStart", { source })))
      session.brief = answer.hookSpecificOutput?.additionalContext ?? ""
    })
  }

  return {
    event: async ({ event }) => {
      const { sessionID, info } = event.properties ?? {}
      if (event.type === "session.created") begin(info.id, "startup", info)
      if (event.type === "session.compacted") inOrder(() => told(about(sessionID, "PostCompact", { trigger: "auto" })))
      if (event.type === "session.idle" && sessions.has(sessionID))
        toldAtOnce(about(sessionID, sessions.get(sessionID).parent ? "SubagentStop" : "Stop"))
    },

    "chat.message": async ({ sessionID, model }, { parts }) => {
      await begin(sessionID, "resume")
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      const event = about(sessionID, "UserPromptSubmit", { prompt: texts.join("\n"), model: model?.modelID })
      const { systemMessage } = parsed(await inOrder(() => told(event)))
      if (systemMessage) await warn(systemMessage)
    },

    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      const brief = sessions.get(sessionID)?.brief
      if (brief) system.push(brief)
    },

    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      if (!CHANGING.has(tool)) return
      await before
      const call = { tool_name: tool, tool_input: args, tool_use_id: callID }
      const printed = await told(about(sessionID, "PreToolUse", call), ["before-tool"])
      if (printed === null && existsSync(GATE))
        throw new Error(`Shiftlog guard: shiftlog-hook does not run. Repair it, or remove ${GATE}`)
      const { hookSpecificOutput: said, systemMessage } = parsed(printed)
      if (systemMessage) await warn(systemMessage)
      if (said?.permissionDecision === "deny") throw new Error(said.permissionDecisionReason)
      if (said?.updatedInput) Object.assign(args, said.updatedInput)
    },

    dispose: async () => {
      await before
      for (const [sessionID, { parent }] of sessions)
        if (!parent) toldAtOnce(about(sessionID, "SessionEnd", { reason: "exit" }))
    },
  }
}
