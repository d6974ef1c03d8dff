import { EtcdClient } from './client.ts';
import type { EtcdOptions } from './connection.ts';
import { EtcdError } from './errors.ts';
import type { Member } from './members.ts';

/** How members are asked. */
export interface MemberProbe extends Omit<EtcdOptions, 'endpoints'> {
  /** A key that the user may read; it need not exist. */
  readonly key: string;
  /** The time after which a member counts as not answering, with the connection to it. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * The IDs of the members that answer a linearizable read, each asked on a connection of its own. Such an answer needs the
 * leader, so a member that is cut off from the others does not count. Needs no root user, unlike the status of a member.
 */
export async function answeringMembers(
  members: readonly Pick<Member, 'id' | 'clientUrls'>[],
  probe: MemberProbe,
): Promise<ReadonlySet<bigint>> {
  const answers = await Promise.all(members.map((member) => doesAnswer(member, probe)));
  return new Set(members.filter((_, index) => answers[index]).map(({ id }) => id));
}

async function doesAnswer(
  { clientUrls: [url] }: Pick<Member, 'clientUrls'>,
  { key, timeoutMs, signal, ...options }: MemberProbe,
): Promise<boolean> {
  if (url === undefined) return false; // a member that was never started
  using client = new EtcdClient({ ...options, endpoints: [new URL(url).host] });
  try {
    await client.get(key, { signal, timeoutMs });
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EtcdError) return false;
    throw error;
  }
}
