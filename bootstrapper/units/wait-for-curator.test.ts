import { describe, expect, test } from '@jest/globals';
import { RpcError } from '../../internal/rpc/index.ts';
import { FakeClock, FakeUnits, settle } from '../../internal/testing/index.ts';
import { JOINSERVICE_UNIT } from './joinservice-unit.ts';
import { waitForCurator } from './wait-for-curator.ts';

const unreachable = new RpcError('rpc-unreachable', 'connect ECONNREFUSED');

/** A wait whose probe fails until `answers` is set. */
function createWait() {
  const units = new FakeUnits();
  units.restarts.set(JOINSERVICE_UNIT, 3);
  units.logs.set(JOINSERVICE_UNIT, ['Started', 'certificate expired']);
  const bed = {
    ...{ units, clock: new FakeClock(), said: new Array<unknown>(), error: unreachable, answers: false },
    /** What the wait ended with. */
    outcomes: new Array<unknown>(),
  };
  const wait = {
    endpoint: '127.0.0.1:9091',
    probe: () => (bed.answers ? Promise.resolve() : Promise.reject(bed.error)),
    say: (text: string, lastError: unknown) => void bed.said.push([text, lastError]),
    signal: new AbortController().signal,
  };
  waitForCurator(bed, wait).then(
    () => bed.outcomes.push('ready'),
    (error: unknown) => bed.outcomes.push(error),
  );
  return bed;
}

describe('waitForCurator', () => {
  test('waits 180 s for a curator that does not answer, and says for what and why', async () => {
    const bed = createWait();
    await settle();
    expect(bed.said).toEqual([['waiting for the curator at 127.0.0.1:9091', unreachable]]);
    await bed.clock.advance(175_000);
    expect(bed.outcomes).toEqual([]);
    bed.answers = true;
    await bed.clock.advance(1_000);
    expect(bed.outcomes).toEqual(['ready']);
  });

  test('rejects with units-curator-not-ready after 180 s', async () => {
    const bed = createWait();
    await settle();
    await bed.clock.advance(185_000);
    expect(bed.outcomes).toMatchObject([{ code: 'units-curator-not-ready', cause: unreachable }]);
  });

  test('rejects with units-curator-not-ready and the log of a service that failed 5 times meanwhile', async () => {
    const bed = createWait();
    await settle();
    bed.units.restarts.set(JOINSERVICE_UNIT, 7);
    await bed.clock.advance(5_000);
    expect(bed.outcomes).toEqual([]);
    bed.units.restarts.set(JOINSERVICE_UNIT, 8);
    await bed.clock.advance(5_000);
    expect(bed.outcomes).toMatchObject([
      {
        code: 'units-curator-not-ready',
        message: expect.stringContaining('failed 5 times: Started | certificate expired'),
      },
    ]);
  });

  test('asks systemd every five seconds only, since each question starts a process', async () => {
    const bed = createWait();
    await settle();
    let questions = 0;
    const { units } = bed;
    const status = units.status.bind(units);
    units.status = (unit) => (questions++, status(unit));
    await bed.clock.advance(60_000);
    expect(questions).toBe(12);
  });

  test('does not wait after a lasting error', async () => {
    const bed = createWait();
    bed.error = new RpcError('rpc-handshake', 'its certificate is not of this cluster');
    await bed.clock.advance(1_000);
    expect(bed.outcomes).toEqual([bed.error]);
  });
});
