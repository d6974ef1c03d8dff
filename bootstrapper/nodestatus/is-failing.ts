import type { RunnableSnapshot } from '../../internal/supervisor/index.ts';

/** Whether the last run of a runnable failed, and the runnable has not recovered since. */
export function isFailing({ lastError, state }: Pick<RunnableSnapshot, 'lastError' | 'state'>): boolean {
  return lastError !== undefined && state !== 'healthy' && state !== 'done';
}
