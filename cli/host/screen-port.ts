import type { Key } from './keys.ts';

/** Colors and styles in use. */
export type Style = 'red' | 'green' | 'yellow' | 'dim' | 'bold';

/** A part of a line in one style. `chosen` is the style of the line that the user has selected. */
export interface Span {
  readonly text: string;
  readonly style?: Style | 'chosen' | undefined;
}

/** A line of a full screen, from left to right. */
export type ScreenLine = readonly Span[];

/** The whole terminal, drawn by one command until it is disposed. Nothing else may write to the terminal meanwhile. */
export interface FullScreen extends Disposable {
  readonly columns: number;
  readonly rows: number;
  /** Whether the terminal shows more than ASCII, by the locale of the user. */
  readonly isUnicode: boolean;
  /** Draws lines that each fill the width; lines that are on the terminal already are not sent again. */
  draw(lines: readonly ScreenLine[]): void;
}

/** What the user does at a full screen. */
export interface ScreenEvents {
  readonly onKey: (key: Key) => void;
  readonly onResize: () => void;
}
