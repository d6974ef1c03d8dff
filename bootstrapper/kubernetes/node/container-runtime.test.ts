import { expect, test } from '@jest/globals';
import type { Component } from '../../../internal/bundle/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { SystemdUnits } from '../../../internal/platform/index.ts';
import { FakeCommands, FaultyFiles, MemoryFiles, SimulatedCrash } from '../../../internal/testing/index.ts';
import { startContainerRuntime } from './container-runtime.ts';

const signal = new AbortController().signal;
const pause: Component = {
  ...{ name: 'pause', version: 'v1', scope: 'node', kind: 'image', references: ['pause:3'] },
  ...{ sha256: '0'.repeat(64), sizeBytes: 1, source: 'https://example.test/' },
};
const commands = new FakeCommands((argv) => (argv[1] === 'show' ? 'ActiveState=active' : undefined));

function start(files: FilePort, restrictOomScoreAdj: boolean): ReturnType<typeof startContainerRuntime> {
  const host = { restrictOomScoreAdj, failCgroupV1: false };
  const units = new SystemdUnits({ files, commands });
  return startContainerRuntime({ files, units }, [pause], host, signal);
}

function restarts(): number {
  return commands.runs.filter((argv) => argv[1] === 'restart').length;
}

test('startContainerRuntime() restarts containerd once for a new configuration, even after a crash at any write', async () => {
  for (let point = 0, isOver = false; !isOver; point++) {
    const disk = new MemoryFiles();
    await disk.makeDirectory('/etc/systemd/system');
    await start(disk, true);
    const before = restarts();
    const dying = new FaultyFiles(disk, { point, fault: 'crash-after' });
    isOver = await start(dying, false).then(
      () => true,
      (error: unknown) => {
        if (!(error instanceof SimulatedCrash)) throw error;
        return false;
      },
    );
    await start(disk, false);
    const restartedAfter = restarts();
    expect({ point, restarted: restartedAfter > before }).toEqual({ point, restarted: true });
    await start(disk, false);
    expect(restarts()).toBe(restartedAfter);
  }
});
