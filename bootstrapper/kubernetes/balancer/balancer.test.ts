import { describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import type { FilePort } from '../../../internal/file/index.ts';
import { SystemdUnits } from '../../../internal/platform/index.ts';
import { everyFault, FakeCommands, FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
import { APILB_CONFIG, APILB_UNIT, ensureBalancer } from './balancer.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';

const never = new AbortController().signal;
const one = { host: '198.18.0.11', port: 6443 };
const other = { host: '198.18.0.12', port: 6443 };

async function configuredUpstreams(files: FilePort): Promise<unknown> {
  const bytes = await files.read(APILB_CONFIG, 65_536);
  if (bytes === undefined) return undefined;
  return (JSON.parse(Buffer.from(bytes).toString('utf8')) as { upstreams: unknown }).upstreams;
}

describe('ensureBalancer()', () => {
  test('starts the balancer with a readable configuration after a crash at any write', async () => {
    const faults = everyFault({
      faults: ['crash-before', 'crash-after'],
      prepare: (disk) => disk.makeDirectory('/etc/systemd/system', 0o755),
      run: (files) =>
        ensureBalancer(
          { files, units: new SystemdUnits({ files, commands: new FakeCommands() }) },
          [one],
          never,
        ),
    });
    for await (const { name, disk } of faults) {
      const commands = new FakeCommands();
      const units = new SystemdUnits({ files: disk, commands });
      await ensureBalancer({ files: disk, units }, [other, one], never);
      const unit = await disk.read(`/etc/systemd/system/${APILB_UNIT}`, 65_536);
      expect({
        name,
        upstreams: await configuredUpstreams(disk),
        modes: [(await disk.stat('/etc/cluster-apilb'))?.mode, (await disk.stat(APILB_CONFIG))?.mode],
        unit: Buffer.from(unit ?? []).toString('utf8'),
        started: commands.runs.some(
          (argv) => /^(re)?start$/.test(argv[1] ?? '') && argv.includes(APILB_UNIT),
        ),
      }).toEqual({
        name,
        upstreams: [other, one],
        modes: [0o755, 0o644],
        unit: expect.stringContaining(`apilb.mjs ${APILB_CONFIG}\n`) as unknown,
        started: true,
      });
    }
  });

  test('keeps the previous configuration while no API server is known, and does not start a balancer without a configuration', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    await ensureBalancer({ files, units }, [], never);
    expect([units.active.size, await configuredUpstreams(files)]).toEqual([0, undefined]);
    await ensureBalancer({ files, units }, [one], never);
    units.active.clear(); // simulates a reboot: no unit is running
    await ensureBalancer({ files, units }, [], never);
    expect([units.active.has(APILB_UNIT), await configuredUpstreams(files)]).toEqual([true, [one]]);
  });

  test('limits the connections of the programs on this node, and closes silent ones', async () => {
    const files = new MemoryFiles();
    await ensureBalancer({ files, units: new FakeUnits() }, [one], never);
    const bytes = await files.read(APILB_CONFIG, 65_536);
    expect(JSON.parse(Buffer.from(bytes ?? []).toString('utf8'))).toMatchObject({
      listen: { host: '127.0.0.1', port: 6445 },
      limits: { connections: 1024, idleMs: 30 * 60_000, halfOpenMs: 60_000 },
    });
  });

  test('adds the CA of the API servers to the configuration once this node has the CA', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    const health = async (): Promise<unknown> => {
      await ensureBalancer({ files, units }, [one], never);
      const bytes = await files.read(APILB_CONFIG, 65_536);
      return (JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as { health?: unknown }).health;
    };
    expect(await health()).toBeUndefined();
    await files.makeDirectory(dirname(KUBELET_FILES.ca));
    await files.writeAtomic(KUBELET_FILES.ca, 'CA');
    expect(await health()).toEqual({ caPem: 'CA' });
    expect(units.moves).toEqual([`start ${APILB_UNIT}`]); // the balancer reloads its configuration file without a restart
  });

  test('restarts the balancer exactly once when its unit file has changed', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    units.installed.set(APILB_UNIT, 'old');
    units.active.add(APILB_UNIT);
    await ensureBalancer({ files, units }, [one], never);
    await ensureBalancer({ files, units }, [other], never);
    expect(units.moves).toEqual([`restart ${APILB_UNIT}`]);
  });
});
