import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { createMemoryLogger, FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { runPendingReset } from './pending-reset.ts';

const { signal } = new AbortController();
const ROOT = '22 1 8:1 / / rw - ext4 /dev/sda1 rw\n';

const MACHINE = { bootId: () => Promise.resolve('boot-1') };
const OPTIONS = { provisioning: { tpm: { kind: 'none' as const } }, stateDisk: undefined, signal };

test('runPendingReset() stops the etcd of a proof, and unmounts its memory', async () => {
  const point = `${AGENT_PATHS.backupProof}/memory`;
  const files = new MemoryFiles();
  for (const path of ['/proc/self', '/var/lib/cluster/reset', point]) await files.makeDirectory(path);
  await files.writeAtomic('/proc/self/mountinfo', `${ROOT}40 22 0:40 / ${point} rw - tmpfs tmpfs rw\n`);
  await files.writeAtomic(AGENT_PATHS.resetOrder, '{}');
  const units = new FakeUnits();
  for (const unit of ['cluster-etcd-proof.service', 'cluster-etcd-proof-restore.service'])
    await units.start(unit);
  const commands = new FakeCommands((argv) =>
    argv[0] === 'realpath' ? argv.slice(3).join('\n') : undefined,
  );
  const run = commands.run.bind(commands);
  commands.run = async (command) => {
    const result = await run(command);
    if (command.argv[0] === 'umount') await files.writeAtomic('/proc/self/mountinfo', ROOT);
    return result;
  };
  const { log } = createMemoryLogger();
  expect(await runPendingReset({ files, units, commands, log, machine: MACHINE }, OPTIONS)).toBe('fresh');
  expect([...units.active]).toEqual([]);
  expect(commands.runs).toContainEqual(['umount', '--lazy', point]);
  expect(await files.stat(AGENT_PATHS.backupProof)).toBeUndefined();
});

test('runPendingReset() deletes what an encrypted pod network leaves: the private key, the links, and the routes of the chart', async () => {
  const files = new MemoryFiles();
  for (const path of ['/proc/self', '/var/lib/cluster/reset', '/run/flannel/wireguard'])
    await files.makeDirectory(path);
  await files.writeAtomic('/proc/self/mountinfo', ROOT);
  await files.writeAtomic('/run/flannel/wireguard/key', 'secret');
  await files.writeAtomic(AGENT_PATHS.resetOrder, '{}');
  const commands = new FakeCommands((argv) =>
    argv[0] === 'realpath' ? argv.slice(3).join('\n') : undefined,
  );
  const { log } = createMemoryLogger();
  const ports = { files, units: new FakeUnits(), commands, log, machine: MACHINE };
  expect(await runPendingReset(ports, OPTIONS)).toBe('fresh');
  expect(await files.stat('/run/flannel')).toBeUndefined();
  for (const link of ['flannel-wg', 'flannel-wg-v6'])
    expect(commands.runs).toContainEqual(['ip', 'link', 'delete', link]);
  const chart = new URL('../../cli/charts/flannel/templates/daemonset.yaml', import.meta.url);
  const added = [...(await readFile(chart, 'utf8')).matchAll(/ip (-[46]) route replace .* proto (\d+)/g)];
  expect(added.map(([, family]) => family)).toEqual(['-4', '-6']);
  for (const [, family = '', protocol = ''] of added)
    expect(commands.runs).toContainEqual(['ip', family, 'route', 'flush', 'proto', protocol]);
});
