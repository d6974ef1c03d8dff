import { z } from 'zod';

/** A toleration of a pod, with the defaults of the Kubernetes API. */
export const tolerationShape = z.object({
  key: z.string().default(''),
  operator: z.string().default('Equal'),
  value: z.string().default(''),
  effect: z.string().default(''),
  tolerationSeconds: z.number().optional(),
});

type Toleration = z.output<typeof tolerationShape>;

interface NodeTaint {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

/**
 * Whether a pod with these tolerations stays on a node with the taint. As in Kubernetes, the first toleration that matches
 * decides; one with a time limit only delays the eviction. An unknown operator matches nothing.
 */
export function toleratesTaint(tolerations: readonly Toleration[], taint: NodeTaint): boolean {
  const first = tolerations.find((each) => isMatching(each, taint));
  return first !== undefined && first.tolerationSeconds === undefined;
}

function isMatching({ key, operator, value, effect }: Toleration, taint: NodeTaint): boolean {
  if ((effect !== '' && effect !== taint.effect) || (key !== '' && key !== taint.key)) return false;
  return operator === 'Exists' || (operator === 'Equal' && key !== '' && value === taint.value);
}
