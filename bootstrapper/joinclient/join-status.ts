/** State of a join, for operators who follow it. */
export type JoinStatus =
  /** No endpoint is known. */
  | { readonly kind: 'idle' }
  | {
      readonly kind: 'asking';
      readonly endpoints: readonly string[];
      readonly sinceMs: number;
      /** Why the last attempt failed; undefined during the first one. */
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
      /** Position in the queue, from 1; 0 when there is no queue. */
      readonly position: number;
      readonly estimateMs: number;
    }
  /**
   * A verified cluster has refused this machine permanently. The machine tries again only when an operator
   * asks for it.
   */
  | { readonly kind: 'refused'; readonly endpoint: string; readonly problem: JoinProblem }
  | {
      readonly kind: 'admitted';
      readonly clusterId: string;
      readonly nodeName: string;
      readonly roles: readonly string[];
    }
  | { readonly kind: 'joined'; readonly clusterId: string; readonly nodeName: string };

/** An error in the form that operators see. */
export interface JoinProblem {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
  readonly exit: string;
  readonly timeMs: number;
}
