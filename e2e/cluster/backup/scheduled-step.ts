import { SCHEDULED_STEP_LOG, type ScheduledStep } from '../../../internal/backup/index.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';

/** Waits until the agent of a machine begins a step of a scheduled backup, as its log says. */
export async function untilStep(
  cluster: StoryCluster,
  machine: string,
  step: ScheduledStep,
  withinSeconds: number,
): Promise<void> {
  const pattern = `${SCHEDULED_STEP_LOG}.*"step":"${step}"`;
  // `grep` ends with the first match, and nobody waits for `journalctl`, which would end only with the next line.
  const follow = `timeout ${withinSeconds} journalctl --follow --lines 0 --output cat --unit bootstrapper 2>/dev/null`;
  await cluster.run(machine, 'bash', '-c', `grep --quiet --max-count 1 '${pattern}' < <(exec ${follow})`);
}
