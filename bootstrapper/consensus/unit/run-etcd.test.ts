import { expect, test } from '@jest/globals';
import type { FilePort } from '../../../internal/file/index.ts';
import { SystemdUnits } from '../../../internal/platform/index.ts';
import {
  FakeCommands,
  FaultyFiles,
  MemoryFiles,
  createMemoryLogger,
  SimulatedCrash,
} from '../../../internal/testing/index.ts';
import { ETCD_PORTS, STATE_ETCD } from '../etcd-instances.ts';
import { consensusLayout } from '../consensus-layout.ts';
import { runEtcd } from './run-etcd.ts';

const signal = new AbortController().signal;
const layout = consensusLayout('/var/lib/cluster', 'state');
const commands = new FakeCommands((argv) => (argv[1] === 'show' ? 'ActiveState=active' : undefined));

function run(files: FilePort, quotaBytes: number, keepRunning = false): Promise<void> {
  const settings = {
    ...{ nodeId: 'node-1', address: '192.0.2.1', clusterId: 'c0ffee' },
    ...{ ports: ETCD_PORTS.state, quotaBytes, etcd: STATE_ETCD, layout, etcdBinary: '/usr/local/bin/etcd' },
  };
  const units = new SystemdUnits({ files, commands });
  return runEtcd(
    { files, commands, units, log: createMemoryLogger().log },
    settings,
    { origin: { kind: 'first' }, keepRunning },
    signal,
  );
}

function restarts(): number {
  return commands.runs.filter((argv) => argv[1] === 'restart').length;
}

test('runEtcd() restarts etcd once for a new configuration, even after a crash at any write', async () => {
  for (let point = 0, isOver = false; !isOver; point++) {
    const disk = new MemoryFiles();
    for (const directory of ['/etc/systemd/system', layout.etcdHome]) await disk.makeDirectory(directory);
    await run(disk, 1024);
    const before = restarts();
    const dying = new FaultyFiles(disk, { point, fault: 'crash-after' });
    isOver = await run(dying, 2048).then(
      () => true,
      (error: unknown) => {
        if (!(error instanceof SimulatedCrash)) throw error;
        return false;
      },
    );
    await run(disk, 2048);
    const restartedAfter = restarts();
    expect({ point, restarted: restartedAfter > before }).toEqual({ point, restarted: true });
    await run(disk, 2048);
    expect(restarts()).toBe(restartedAfter);
  }
});

test('runEtcd() with keepRunning changes nothing; the next call without keepRunning restarts etcd', async () => {
  const disk = new MemoryFiles();
  for (const directory of ['/etc/systemd/system', layout.etcdHome]) await disk.makeDirectory(directory);
  await run(disk, 1024);
  const [before, written] = [restarts(), await disk.read(layout.configFile, 4_096)];
  await run(disk, 2048, true);
  expect([restarts(), await disk.read(layout.configFile, 4_096)]).toEqual([before, written]);
  await run(disk, 2048);
  expect(restarts()).toBe(before + 1);
});

test('runEtcd() lets a member compare itself with its peers before it serves', async () => {
  const disk = new MemoryFiles();
  for (const directory of ['/etc/systemd/system', layout.etcdHome]) await disk.makeDirectory(directory);
  await run(disk, 1024);
  const config = JSON.parse(
    Buffer.from((await disk.read(layout.configFile, 4_096)) ?? '').toString(),
  ) as object;
  expect(config).toMatchObject({ 'feature-gates': 'InitialCorruptCheck=true' });
});
