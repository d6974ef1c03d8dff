import { expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { supervise } from '../../internal/supervisor/index.ts';
import { createMemoryLogger, findFreePort, ProcessUnits } from '../../internal/testing/index.ts';
import { freezeProcess } from '../../internal/testing/host/freeze-process.ts';
import { HungServices } from './hung-services.ts';
import { answerProbe, HTTP1_HELLO, SilentError } from './local-probes.ts';

const UNIT = 'listener.service';
/** Answers "not found", as etcd does at its metrics port. */
const LISTENER = `require('node:http').createServer((_,a)=>a.writeHead(404).end()).listen(process.argv[1],'127.0.0.1')`;

test('a process that SIGSTOP has stopped is killed within 15 s, although the kernel accepts its connections', async () => {
  await using units = new ProcessUnits();
  const clock = new SystemClock();
  const port = await findFreePort();
  const probe = answerProbe({ host: '127.0.0.1', port }, HTTP1_HELLO);
  const { signal } = new AbortController();
  await units.install(UNIT, `ExecStart=${process.execPath} -e ${LISTENER} ${port}`);
  await units.start(UNIT);
  while (
    !(await probe(signal).then(
      () => true,
      () => false,
    ))
  )
    await clock.sleep(50, signal);
  const { mainPid } = await units.status(UNIT);

  const run = new AbortController();
  const { log } = createMemoryLogger();
  const service = { name: 'listener', unit: UNIT, isOfControlPlane: false, isUrgent: true, probe };
  const hung = new HungServices({ clock, files: new DiskFiles(), units }, [service]);
  const { finished } = supervise({
    root: (scope) => hung.watch(scope, () => true),
    ...{ log, clock, random: Math.random, graceMs: 5_000, signal: run.signal },
  });
  try {
    await freezeProcess(mainPid);
    await expect(probe(signal)).rejects.toThrow(SilentError);
    const stoppedMs = clock.monotonicMs();
    while ((await units.status(UNIT)).mainPid === mainPid) await clock.sleep(100, signal);
    expect(clock.monotonicMs() - stoppedMs).toBeLessThan(15_500);
    // The worker reports the kill after the process has ended.
    while (hung.problems().length === 0 && clock.monotonicMs() - stoppedMs < 30_000)
      await clock.sleep(50, signal);
    expect(hung.problems()).toEqual([
      { name: 'listener', why: expect.stringMatching(/^was hung \(no answer for 1[0-9]s\): killed/) },
    ]);
  } finally {
    run.abort(new Error('the test is over'));
    await finished;
  }
}, 60_000);
