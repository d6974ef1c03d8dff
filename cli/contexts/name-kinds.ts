/** The kinds of names that completion scripts ask for. `machines`: those of local clusters. */
export const NAME_KINDS = ['nodes', 'contexts', 'local-clusters', 'machines'] as const;

/** One of NAME_KINDS. */
export type NameKind = (typeof NAME_KINDS)[number];
