/** Where a machine stands on its way into a cluster, as it can be shown to whoever waits for it. */
export type JoinStatus =
  /** Nobody has said where a cluster is. */
  | { readonly kind: 'idle' }
  | {
      readonly kind: 'asking';
      readonly endpoints: readonly string[];
      readonly sinceMs: number;
      /** Why the last round was in vain; undefined in the first. */
      readonly lastError: JoinProblem | undefined;
    }
  | {
      readonly kind: 'waiting';
      readonly endpoint: string;
      readonly clusterId: string;
      readonly clusterName: string;
      readonly joinId: string;
      readonly code: string;
      readonly message: string;
      readonly fingerprint: string;
      readonly sinceMs: number;
      /** 1-based; 0 where there is no queue. */
      readonly position: number;
      readonly estimateMs: number;
    }
  /** A cluster that proved itself gave an answer that will not change. Asked again only when somebody says so. */
  | { readonly kind: 'refused'; readonly endpoint: string; readonly problem: JoinProblem }
  | {
      readonly kind: 'admitted';
      readonly clusterId: string;
      readonly nodeName: string;
      readonly roles: readonly string[];
    }
  | { readonly kind: 'joined'; readonly clusterId: string; readonly nodeName: string };

/** An error as it is told to others. */
export interface JoinProblem {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
  readonly exit: string;
  readonly timeMs: number;
}
