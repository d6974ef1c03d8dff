import { describe, expect, test } from '@jest/globals';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
} from '../../../internal/testing/index.ts';
import { isStayingDiskError } from '../../disk/index.ts';
import { AGENT_PATHS } from '../../nodestate/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { runAgent } from '../agent.ts';

const DEVICE = '/dev/disk/by-id/state';

async function createMachine() {
  const files = new MemoryFiles();
  await files.makeDirectory('/proc/self');
  await files.writeAtomic('/proc/self/mountinfo', '29 1 8:1 / / rw - ext4 /dev/sda1 rw\n');
  const commands = new FakeCommands((argv) => (argv[0] === 'realpath' ? `${DEVICE}\n` : undefined));
  const units = new FakeUnits();
  const { log } = createMemoryLogger();
  const told: string[] = [];
  const ports = { files, commands, units, log, clock: new FakeClock() } as unknown as AgentPorts;
  const options = {
    provisioning: {
      tpm: { kind: 'device', path: '/dev/tpmrm0', lockPcr: 15, sealedPcrs: [7] },
      stateDisk: { device: DEVICE, pcrs: [7], integrity: true, recoveryRecipients: ['age1'] },
    },
    onSlowStart: async (status: string) => void told.push(await Promise.resolve(status)),
    signal: new AbortController().signal,
  } as unknown as AgentOptions;
  return { files, commands, units, told, run: () => runAgent(ports, options) };
}

describe('runAgent() with a state disk', () => {
  test('does not start on the disk of the operating system while the state disk is missing, and tries again', async () => {
    const { files, commands, units, told, run } = await createMachine();
    const error: unknown = await run().catch((each: unknown) => each);
    expect(error).toMatchObject({ code: 'disk-device-missing' });
    expect(isStayingDiskError(error)).toBe(false);
    expect(commands.runs.map(([program]) => program)).toEqual(['realpath']);
    expect([units.moves, await files.list(AGENT_PATHS.state), told]).toEqual([
      [],
      [],
      ['opening the state disk'],
    ]);
  });

  test('reads no order and no record from an unencrypted disk', async () => {
    const { files, commands, units, run } = await createMachine();
    await files.makeDirectory(`${AGENT_PATHS.state}/reset`);
    await files.writeAtomic(AGENT_PATHS.resetOrder, '{}');
    const error: unknown = await run().catch((each: unknown) => each);
    expect(error).toMatchObject({ code: 'disk-directory-used' });
    expect(isStayingDiskError(error)).toBe(true);
    expect([commands.runs, units.moves]).toEqual([[], []]);
    expect(await files.stat(AGENT_PATHS.resetOrder)).toBeDefined();
  });
});
