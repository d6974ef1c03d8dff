import { describe, expect, test } from '@jest/globals';
import type { FilePort } from '../../../internal/file/index.ts';
import { SystemdUnits } from '../../../internal/platform/index.ts';
import { everyFault, FakeCommands, FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
import { ensureBalancer } from './balancer.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { APILB_CONFIG, APILB_UNIT, buildApilbUnit } from '../node/units.ts';

const never = new AbortController().signal;
const one = { host: '198.18.0.11', port: 6443 };
const other = { host: '198.18.0.12', port: 6443 };

async function followed(files: FilePort): Promise<unknown> {
  const bytes = await files.read(APILB_CONFIG, 65_536);
  if (bytes === undefined) return undefined;
  return (JSON.parse(Buffer.from(bytes).toString('utf8')) as { upstreams: unknown }).upstreams;
}

describe('serveBalancer()', () => {
  test('comes to a balancer that runs and may read its list, wherever an earlier life ended', async () => {
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
        upstreams: await followed(disk),
        modes: [(await disk.stat('/etc/cluster-apilb'))?.mode, (await disk.stat(APILB_CONFIG))?.mode],
        unit: Buffer.from(unit ?? []).toString('utf8'),
        started: commands.runs.some(
          (argv) => /^(re)?start$/.test(argv[1] ?? '') && argv.includes(APILB_UNIT),
        ),
      }).toEqual({
        name,
        upstreams: [other, one],
        modes: [0o755, 0o644],
        unit: buildApilbUnit(),
        started: true,
      });
    }
  });

  test('starts with the list that is known where there is none now, and does nothing where none was ever known', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    await ensureBalancer({ files, units }, [], never);
    expect([units.active.size, await followed(files)]).toEqual([0, undefined]);
    await ensureBalancer({ files, units }, [one], never);
    units.active.clear(); // a reboot
    await ensureBalancer({ files, units }, [], never);
    expect([units.active.has(APILB_UNIT), await followed(files)]).toEqual([true, [one]]);
  });

  test('tells the balancer who signs for API servers as soon as this node knows it', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    const health = async (): Promise<unknown> => {
      await ensureBalancer({ files, units }, [one], never);
      const bytes = await files.read(APILB_CONFIG, 65_536);
      return (JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as { health?: unknown }).health;
    };
    expect(await health()).toBeUndefined();
    await files.makeDirectory(KUBELET_FILES.ca.slice(0, KUBELET_FILES.ca.lastIndexOf('/')));
    await files.writeAtomic(KUBELET_FILES.ca, 'CA');
    expect(await health()).toEqual({ caPem: 'CA' });
    expect(units.moves).toEqual([`start ${APILB_UNIT}`]); // it follows its file
  });

  test('restarts a balancer that runs as an earlier version wrote it, once', async () => {
    const files = new MemoryFiles();
    const units = new FakeUnits();
    units.installed.set(APILB_UNIT, 'of before');
    units.active.add(APILB_UNIT);
    await ensureBalancer({ files, units }, [one], never);
    await ensureBalancer({ files, units }, [other], never);
    expect(units.moves).toEqual([`restart ${APILB_UNIT}`]);
  });
});
