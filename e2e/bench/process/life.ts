import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { agentUnit } from './agent-unit.ts';
import type { BenchResult } from '../result.ts';
import { runDay } from './day.ts';

const MB = 1e6;
/** The allowed growth. A leak of two bytes for each of the million log lines would reach it. */
const GROWTH_LIMIT_MB = 2;
/** The memory limit of a whole agent; this process is a part of an agent. */
const AGENT_LIMIT_MB = 48;

/** A process with the agent's flags, then the programs of a cluster for an accelerated day. */
export async function runLifeBench(): Promise<readonly BenchResult[]> {
  return [...(await runLongProcess()), ...(await runDay())];
}

/**
 * Simulates a long run of the agent in a minute: a process with the agent's flags writes a million log lines and
 * makes 10,000 changes of an `EventValue` with eight watchers. The first run makes code and heap grow to their final
 * size. Memory that a second run adds is a leak.
 */
async function runLongProcess(): Promise<readonly BenchResult[]> {
  const { flags, env } = agentUnit();
  const child = spawn(execPath, [...flags, join(import.meta.dirname, 'life-process.ts')], {
    env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const readings: number[] = [];
  child.on('message', () => {
    readings.push(anonymousBytes(child.pid ?? 0));
    child.send('go on');
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  const [young = NaN, old = NaN, older = NaN] = readings;
  if (code !== 0 || readings.length !== 3) throw new Error(`the process of the long run ended with ${code}`);
  const [atStart, atMiddle, atEnd] = [young, old, older].map((bytes) => (bytes / MB).toFixed(1));
  const detail = `RssAnon ${atStart} MB at first, ${atMiddle} MB after one run, ${atEnd} MB after two runs`;
  const value = Math.max(0, (older - old) / MB);
  return [
    {
      name: 'memory that 1,000,000 log lines and 10,000 Event Value changes cost for good',
      value,
      unit: 'MB',
      limit: GROWTH_LIMIT_MB,
      detail,
    },
    {
      name: 'anonymous memory after all of it',
      value: older / MB,
      unit: 'MB',
      limit: AGENT_LIMIT_MB,
      detail: "the agent's flags, logger and Event Values; its limit as a whole",
    },
  ];
}

function anonymousBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
