/**
 * Lives of a whole agent in a process of its own, each stopped in another moment: at a call of one of its ports, at a line
 * of its log, when it is ready, or some milliseconds after. Run in namespaces of its own (stop.itest.ts), since ports and
 * sockets of an agent have fixed names. Prints one JSON object.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { SystemClock } from '../../internal/clock/index.ts';
import { parseProvisioning } from '../../internal/config/index.ts';
import { DiskFiles, DiskStreams, KernelFiles } from '../../internal/file/index.ts';
import { createLogger } from '../../internal/logging/index.ts';
import { LinuxMachine } from '../../internal/platform/index.ts';
import { FakeCommands } from '../../internal/testing/host/fake-commands.ts';
import { FakeUnits } from '../../internal/testing/host/fake-units.ts';
import { LogRing } from '../nodestream/index.ts';
import { runAgent } from './agent.ts';

const [rounds, limitMs] = process.argv.slice(2).map(Number);
const ownerKey = generateKeyPairSync('ed25519')
  .publicKey.export({ format: 'der', type: 'spki' })
  .subarray(-32);
const provisioning = parseProvisioning(
  JSON.stringify({
    version: 1,
    platform: 'local',
    ownerKeys: [ownerKey.toString('base64')],
    tpm: { kind: 'none' },
    address: '127.0.0.1',
    joinEndpoints: ['127.0.0.1:1'], // nobody is there: it asks and asks
  }),
);
const unhandled = [];
process.on('unhandledRejection', (reason) => unhandled.push(String(reason?.stack ?? reason)));

/** Each method call of a port is a moment. */
function counted(port, onMoment) {
  return new Proxy(port, {
    get: (target, name) => {
      const member = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args) => {
        onMoment();
        return member.apply(target, args);
      };
    },
  });
}

/** One life, stopped in the moment of that number, or `afterMs` after it was ready. Answers how it went. */
async function live({ moment = Infinity, afterMs }) {
  const stop = new AbortController();
  let moments = 0;
  let stoppedMs;
  const fire = () => {
    if (stop.signal.aborted) return;
    stoppedMs = performance.now();
    stop.abort(new Error('stopped'));
  };
  const onMoment = () => void (++moments === moment && fire());
  /** The root fails when a part of the agent is put together wrongly; the supervisor would restart it for ever. */
  let rootFailure;
  const onRecord = ({ level, path, fields }) => {
    if (level === 'error' && path === 'root' && !stop.signal.aborted)
      rootFailure ??= `root: ${fields?.error}`;
    onMoment();
  };
  const clock = new SystemClock();
  const files = new DiskFiles();
  const commands = new FakeCommands(([program, ...args]) => {
    if (program === 'install') mkdirSync(args.at(-1), { recursive: true });
    return undefined;
  });
  const ports = {
    files: counted(files, onMoment),
    kernel: new KernelFiles(),
    streams: new DiskStreams(),
    commands: counted(commands, onMoment),
    units: counted(new FakeUnits(), onMoment),
    machine: counted(new LinuxMachine(files), onMoment),
    clock: counted(clock, onMoment),
    log: createLogger({ path: '', nowMs: () => clock.nowMs(), sink: onRecord }),
    random: Math.random,
    environment: {},
    ring: new LogRing(),
    usage: () => ({ uptimeSeconds: 0, residentBytes: 0, heapBytes: 0, cpuMicroseconds: 0 }),
  };
  let isReady = false;
  const onReady = async () => {
    isReady = true;
    onMoment();
    if (afterMs !== undefined) void delay(afterMs).then(fire);
  };
  const life = runAgent(ports, {
    provisioning,
    agentVersion: '0.0.0',
    onReady,
    onStatus: async () => onMoment(),
    onSlowStart: onReady,
    signal: stop.signal,
  });
  const failure = await Promise.race([
    life.then(
      () => undefined,
      (error) => (stop.signal.aborted ? undefined : String(error.stack)),
    ),
    untilLate(stop.signal),
  ]);
  return {
    moments,
    isReady,
    failure: failure ?? rootFailure,
    tookMs: performance.now() - (stoppedMs ?? performance.now()),
  };
}

async function untilLate(signal) {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  await delay(limitMs, undefined, { ref: false });
  return `still running ${limitMs} ms after it was stopped`;
}

const failures = [];
let slowestMs = 0;
let beforeReady = 0;
const note = (what, { failure, tookMs, isReady }) => {
  if (failure !== undefined) failures.push(`${what}: ${failure}`);
  slowestMs = Math.max(slowestMs, tookMs);
  if (!isReady) beforeReady++;
};
// How many moments a life has that is left alone for a while.
const whole = await live({ afterMs: 300 });
note('the first life', whole);
for (let round = 0; round < rounds; round++) {
  // The beginning of a life is where it opens things.
  const moment = 1 + Math.floor((whole.moments * round) / rounds);
  note(`stopped in moment ${moment}`, await live({ moment, afterMs: 1000 }));
  const afterMs = Math.random() * 40;
  note(`stopped ${afterMs} ms after it was ready`, await live({ afterMs }));
}
await delay(50);
const left = process.getActiveResourcesInfo().filter((name) => !/^(Timeout|TTYWrap|PipeWrap)$/.test(name));
process.stdout.write(
  `${JSON.stringify({ runs: 1 + 2 * rounds, moments: whole.moments, beforeReady, slowestMs, failures, unhandled, left })}\n`,
);
process.exit();
