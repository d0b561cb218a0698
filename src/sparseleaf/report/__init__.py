"""Reports on a fitted model: one self-contained HTML file with metrics, labels, trees and explained examples."""

from sparseleaf.report.report import Report

__all__ = ["Report"]
