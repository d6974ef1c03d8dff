import { describe, expect, test } from '@jest/globals';
import { FakeClock, FakeCommands, MemoryFiles, settle } from '../../../internal/testing/index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { noPassphrases } from '../../workspace/fake-passphrases.ts';
import { ClusterError } from '../errors.ts';
import { watchResult } from './watch.ts';

const unreachable = (): ClusterError => new ClusterError('cluster-curator-unreachable', 'calling curators');

function start() {
  const [clock, stop] = [new FakeClock(), new AbortController()];
  const context = {
    host: new RecordingHost(),
    ports: { files: new MemoryFiles(), commands: new FakeCommands(), clock },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace: '/w' },
    passphrases: noPassphrases,
    env: {},
    signal: stop.signal,
  };
  return { context, clock, stop };
}

/** The outcome of each attempt: an error to throw, or nothing. */
function attempts(outcomes: readonly (Error | undefined)[]) {
  const made: number[] = [];
  const show = async (): Promise<void> => {
    const outcome = outcomes[made.push(made.length) - 1];
    if (outcome !== undefined) throw outcome;
  };
  return { made, show };
}

describe('watchResult()', () => {
  test('fails like the command itself when the first attempt fails', async () => {
    const { context } = start();
    await expect(watchResult(context, attempts([unreachable()]).show)).rejects.toMatchObject({
      code: 'cluster-curator-unreachable',
    });
  });

  test('warns once about a failure that may pass, and goes on until it is interrupted', async () => {
    const { context, clock, stop } = start();
    const { made, show } = attempts([undefined, unreachable(), unreachable(), undefined]);
    const watching = watchResult(context, show);
    for (let round = 0; round < 3; round++) {
      await settle();
      await clock.advance(2_000);
    }
    await settle();
    expect([made.length, context.host.codes]).toEqual([4, ['watch-failed']]);
    stop.abort(new Error('interrupted'));
    await expect(watching).rejects.toThrow('interrupted');
  });

  test('ends with an error that does not pass', async () => {
    const { context, clock } = start();
    const gone = new ClusterError('cluster-not-initialized', 'reading the workspace');
    const watching = watchResult(context, attempts([undefined, gone]).show);
    const outcome = expect(watching).rejects.toMatchObject({ code: 'cluster-not-initialized' });
    await settle();
    await clock.advance(2_000);
    await outcome;
  });
});
