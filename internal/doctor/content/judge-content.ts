/** Whether the voting members of an etcd cluster have the same content. Members are named by the IDs of their nodes. */
export interface ContentVerdict {
  /** Members with the same content: more than half of all voting members, or none. */
  readonly agreeing: readonly string[];
  /** Members with other content than those; without a majority all that were compared, unless all of them agree. */
  readonly differing: readonly string[];
  /** Members that did not answer, or were compacted at another revision. */
  readonly notCompared: readonly string[];
}

/** The content of a member at the compared revision; undefined if it cannot be compared. */
export interface MemberContent {
  readonly name: string;
  readonly hash: number | undefined;
}

/**
 * Judges the content of all voting members. A majority is counted among all of them and not among those that answered: the
 * result says which member to take out, and two members that have the same fault must not condemn the only good one. Pure.
 */
export function judgeContent(members: readonly MemberContent[]): ContentVerdict {
  const groups = new Map<number, string[]>();
  for (const { name, hash } of members)
    if (hash !== undefined) groups.set(hash, [...(groups.get(hash) ?? []), name]);
  const [largest = [], ...others] = [...groups.values()].toSorted((a, b) => b.length - a.length);
  const notCompared = members.filter(({ hash }) => hash === undefined).map(({ name }) => name);
  if (others.length === 0 || largest.length > members.length / 2)
    return { agreeing: largest, differing: others.flat(), notCompared };
  return { agreeing: [], differing: [largest, ...others].flat(), notCompared };
}
