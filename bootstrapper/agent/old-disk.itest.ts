import { expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { SystemClock } from '../../internal/clock/index.ts';
import { parseProvisioning } from '../../internal/config/index.ts';
import { DiskStreams, KernelFiles } from '../../internal/file/index.ts';
import { createLogger } from '../../internal/logging/index.ts';
import { LinuxMachine, LowPriority } from '../../internal/platform/index.ts';
import { createSwtpmFactory, FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { LogRing } from '../nodestream/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import { openAgent } from './open-agent.ts';

const ownerKey = generateKeyPairSync('ed25519')
  .publicKey.export({ format: 'der', type: 'spki' })
  .subarray(-32);

test('openAgent() finds with the TPM that the disk of a member is an old copy, and nothing on a current one', async () => {
  await using factory = await createSwtpmFactory();
  await using chip = await factory.start();
  const files = new MemoryFiles();
  await files.makeDirectory('/etc/cluster');
  const clock = new SystemClock();
  const ports = {
    ...{
      files,
      clock,
      kernel: new KernelFiles(),
      streams: new DiskStreams(),
      machine: new LinuxMachine(files),
    },
    ...{ commands: new FakeCommands(), units: new FakeUnits(), ring: new LogRing() },
    log: createLogger({ path: '', nowMs: () => clock.nowMs(), sink: () => undefined }),
    random: () => 0.5,
    lowPriority: new LowPriority(() => undefined),
    usage: () => ({ uptimeSeconds: 0, residentBytes: 0, heapBytes: 0, cpuMicroseconds: 0 }),
    environment: {},
  };
  const open = () =>
    openAgent(ports, {
      provisioning: parseProvisioning(
        JSON.stringify({
          ...{
            version: 1,
            platform: 'local',
            ownerKeys: [ownerKey.toString('base64')],
            address: '127.0.0.1',
          },
          tpm: { kind: 'socket', path: chip.socketPath },
        }),
      ),
      ...{ agentVersion: '0.0.0', signal: new AbortController().signal },
      ...{
        onReady: async () => undefined,
        onStatus: async () => undefined,
        onSlowStart: async () => undefined,
      },
      ...{ tree: () => [], retryNow: () => undefined, end: () => undefined },
    });
  const record = AGENT_PATHS.acceptedDocuments;

  const first = await open();
  await createNodeState(files).membership.save(membership);
  await first.keys.saveFloors({ keys: { serial: 1 } });
  await first.rollback.check();
  const old = await files.read(record, 65_536);
  await first.keys.saveFloors({ keys: { serial: 2 } });
  await first.rollback.check();
  expect((await open()).rollback.signedAfterMs).toBeUndefined();

  await files.writeAtomic(record, old ?? '');
  const beforeMs = clock.nowMs();
  const { rollback, keys, state } = await open();
  expect(rollback.signedAfterMs).toBeGreaterThanOrEqual(Math.floor(beforeMs));
  const { signedAfterMs } = rollback;
  expect(await keys.loadFloors()).toMatchObject({ signedAfterMs });
  expect(await state.configurationFloors.load()).toMatchObject({ signedAfterMs });
}, 60_000);
