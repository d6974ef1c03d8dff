import { SystemClock } from '../internal/clock/index.ts';
import { MAX_PROVISIONING_BYTES, parseProvisioning, PROVISIONING_PATH } from '../internal/config/index.ts';
import { CodedError, describeError, EXIT_CODES, findCoded } from '../internal/errors/index.ts';
import { ExecaRunner } from '../internal/exec/index.ts';
import { DiskFiles, DiskStreams, KernelFiles } from '../internal/file/index.ts';
import { createLogger, lineSink, ignoreOutputErrors } from '../internal/logging/index.ts';
import { usageOf } from '../internal/metrics/index.ts';
import {
  acquireProcessLock,
  collectGarbageRegularly,
  LinuxMachine,
  LowPriority,
  SystemdUnits,
} from '../internal/platform/index.ts';
import { VERSION } from '../internal/versions/index.ts';
import { runAgent } from './agent/index.ts';
import { isStayingDiskError } from './disk/index.ts';
import { failureText, printOnConsole } from './machineservice/index.ts';
import { LogRing } from './nodestream/index.ts';

/**
 * Entry point of the agent on a node: reads the provisioning, creates the ports to the machine, and runs
 * until systemd stops the agent.
 */
/**
 * EX_CONFIG of sysexits.h. systemd does not restart the unit after this exit code (RestartPreventExitStatus).
 */
const EX_CONFIG = 78;
const FINAL_CODES: ReadonlySet<string> = new Set(['config-provisioning-invalid', 'preflight-tpm-unusable']);
const MAX_STATUS_CHARS = 1000;
/** Cleared at each boot. */
const RUN_DIRECTORY = '/run/cluster';

const clock = new SystemClock();
const files = new DiskFiles();
const commands = new ExecaRunner({ path: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin' });
/** The newest log lines of the agent, which operators can read. */
const ring = new LogRing();
ignoreOutputErrors(process.stderr); // Node.js writes its warnings to stderr
const journal = lineSink(process.stdout);
const log = createLogger({
  path: '',
  nowMs: () => clock.nowMs(),
  sink: (record) => {
    if (record.level === 'debug' && process.env['CLUSTER_DEBUG'] !== '1') return;
    ring.add(record);
    journal(record);
  },
});
// Node.js exits when no handle is open, which happens while all workers only wait for values.
const alive = setInterval(() => undefined, 2 ** 30);
const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const)
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));

/** Sends status and readiness of the unit to systemd (sd_notify(3)); does nothing without systemd. */
async function tellSystemd(...flags: readonly string[]): Promise<void> {
  const socket = process.env['NOTIFY_SOCKET'];
  if (socket === undefined) return;
  await commands.run({
    argv: ['systemd-notify', ...flags],
    env: { NOTIFY_SOCKET: socket },
    timeoutMs: 5_000,
    // The message must also be sent while the agent is stopping.
    signal: new AbortController().signal,
  });
}

/** Shortens the status to one line with a maximum length; the journal has the whole text. */
function statusFlag(text: string): string {
  return `--status=${text.replace(/\s+/g, ' ').slice(0, MAX_STATUS_CHARS)}`;
}

/** Whether a restart is useless until an operator has changed something. */
function staysFailed(error: CodedError | undefined): error is CodedError {
  if (process.env['NOTIFY_SOCKET'] === undefined || error === undefined) return false;
  return FINAL_CODES.has(error.code) || isStayingDiskError(error);
}

let end: Awaited<ReturnType<typeof runAgent>> = 'ended';
try {
  const raw = await files.read(PROVISIONING_PATH, MAX_PROVISIONING_BYTES);
  await files.makeDirectory(RUN_DIRECTORY, 0o755);
  await using _guard = await acquireProcessLock(files, `${RUN_DIRECTORY}/agent.lock`);
  void collectGarbageRegularly(clock, stop.signal);
  const provisioning = parseProvisioning(Buffer.from(raw ?? []).toString('utf8'));
  end = await runAgent(
    {
      files,
      kernel: new KernelFiles(),
      streams: new DiskStreams(),
      commands,
      units: new SystemdUnits({ files, commands }),
      machine: new LinuxMachine(files),
      clock,
      log,
      random: Math.random,
      ring,
      usage: () => usageOf(process),
      lowPriority: new LowPriority(),
      environment: process.env,
    },
    {
      provisioning,
      agentVersion: VERSION,
      onReady: (status) => tellSystemd('--ready', statusFlag(status)),
      onStatus: (status) => tellSystemd(statusFlag(status)),
      onSlowStart: (status, durationMs) =>
        tellSystemd(statusFlag(status), `EXTEND_TIMEOUT_USEC=${durationMs * 1000}`),
      signal: stop.signal,
    },
  );
} catch (error) {
  end = 'ended';
  const coded = findCoded(error);
  log.error('agent failed', {
    code: coded?.code ?? 'internal',
    message: describeError(error),
    fix: coded?.fix,
  });
  const exit = EXIT_CODES[coded instanceof CodedError ? coded.exit : 'internal'].number;
  const isStaying = staysFailed(coded);
  process.exitCode = isStaying ? EX_CONFIG : exit;
  if (!stop.signal.aborted) {
    const fix = coded?.fix === undefined ? '' : ` Fix: ${coded.fix}`;
    const code = coded === undefined ? '' : `${coded.code}: `;
    await tellSystemd(statusFlag(`${code}${describeError(error)}.${fix}`)).catch((failed: unknown) =>
      log.warn('status not sent to systemd', { error: describeError(failed) }),
    );
    if (isStaying) {
      const text = failureText({ code: coded.code, message: describeError(error), fix: coded.fix });
      await printOnConsole({ files, commands }, text, { log, signal: stop.signal });
    }
  }
}
clearInterval(alive);
await new Promise(setImmediate); // a signal that has arrived already
if (end === 'start-again' && !stop.signal.aborted) {
  // If execve(2) fails, the process ends, and systemd starts the agent again.
  log.info('starting again, without the keys of the state disk in memory');
  process.execve?.(process.execPath, [process.execPath, ...process.execArgv, ...process.argv.slice(1)]);
}
// Half-closed sockets must not keep a stopped agent running.
process.exit();
