import { expect, test } from '@jest/globals';
import { dashboard, expressionsOf } from './monitoring/dashboard.ts';
import { DOCTOR_CHECKS } from '../internal/doctor/index.ts';

interface Grid {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}
const { panels } = dashboard() as {
  readonly panels: readonly { readonly id: number; readonly type: string; readonly gridPos: Grid }[];
};

test('the dashboard has a panel for the figure of each alert', () => {
  const expressions = expressionsOf(dashboard());
  for (const { alert } of DOCTOR_CHECKS) if (!('none' in alert)) expect(expressions).toContain(alert.figure);
  expect(new Set(expressions).size).toBe(expressions.length);
});

test('the panels of the dashboard have their own number and place, on a grid of 24 columns', () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
});
