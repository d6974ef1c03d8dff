import { expect, test } from '@jest/globals';
import { createMemoryLogger, FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { runAgent } from './agent.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

test('runAgent() refuses the data of an earlier release with a single etcd, reports its path and changes nothing', async () => {
  const [files, commands, units] = [new MemoryFiles(), new FakeCommands(), new FakeUnits()];
  await files.makeDirectory(`${AGENT_PATHS.state}/etcd`);
  await files.writeAtomic(`${AGENT_PATHS.state}/etcd/etcd.json`, '{}');
  const { log } = createMemoryLogger();
  const machine = { bootId: () => Promise.resolve('boot') };
  const ports = { files, commands, units, log, machine } as unknown as AgentPorts;
  const options = {
    provisioning: { tpm: { kind: 'none' } },
    signal: new AbortController().signal,
  } as unknown as AgentOptions;
  await expect(runAgent(ports, options)).rejects.toMatchObject({ code: 'consensus-single-etcd' });
  expect([commands.runs, units.moves]).toEqual([[], []]);
  expect(await files.list(AGENT_PATHS.state)).toEqual(['etcd']);
});
