/**
 * One end of the network of delayed-path.itest.ts: the agent's probe on a node with the address OWN in the network of pods. It makes five
 * checks without the time between them, then prints what it has found.
 */
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { answerTimeMs } from './answer-time.ts';
import { PodNetworkProbe } from './pod-network-probe.ts';

const CHECKS = 5;
const EVERY_MS = 10_000;
const [own] = process.argv.slice(2);
const { signal } = new AbortController();
const system = new SystemClock();
let skippedMs = 0;
const clock = { monotonicMs: () => system.monotonicMs() + skippedMs };

const probe = new PodNetworkProbe({
  ...{ clock, files: new DiskFiles(), ownAddress: () => own },
  answerTimeMs: (host) => answerTimeMs(host, { clock, signal }),
  tryFullPackets: () => Promise.resolve('unknown'),
});
for (let checks = 0; checks < CHECKS; checks++) {
  skippedMs += EVERY_MS;
  await probe.check(signal);
}
console.log(JSON.stringify(probe.found));
